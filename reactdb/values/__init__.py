"""The parts of a document: encoding, order of keys and values, numbers, their printed forms.

value              the base of small classes that are equal where their fields are
scalars            which ints, Decimals, dates and times are values
pseudotypes        the objects by which JSON says what it has no word for
extension_types    types that MessagePack has not, with the numbers that they have in the bytes
frozen             dicts and lists that refuse to be changed
printing           values inside ReQL's messages
decoding           from bytes to documents
codec              from documents to bytes: the one place where a value is checked
bounds             `minval` and `maxval`
key_format         the bytes of a key, which sort as the values do
collation          the one order of all values, and which of them may be keys
value_types        registers types of a dialect or a program
canonical          which of several equal values is shown
respelling         what a dialect shows otherwise than it is stored, and how it is kept when it comes back
totals             exact sums
blob               the name of a large value
"""
