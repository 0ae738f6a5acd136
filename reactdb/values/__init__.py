"""The parts of a document: encoding, order of keys and values, numbers, their printed forms.

value              the base of small classes, equal where their fields are
scalars            the ints, Decimals, dates and times that are values
pseudotypes        the objects for values that JSON lacks
extension_types    types that MessagePack lacks, with their numbers in the bytes
frozen             dicts and lists that refuse changes
refusals           why a value cannot be stored, and what to write instead
reql_text          values inside ReQL's messages
decode             from bytes to documents
codec              from documents to bytes: the one place where a value is checked
encode_hook        the function of `connect(encode=...)`
bounds             `minval` and `maxval`
key_format         the bytes of a key, which sort as the values do
collation          the one order of all values, and the values that may be keys
value_types        registers types of a dialect or a program
canonical          the shown value among several equal ones
shown_values       values that a dialect shows in another form, and their way back
totals             exact sums
blob               the name of a large value
"""
