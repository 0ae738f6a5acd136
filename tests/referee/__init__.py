"""The referee: one random script of operations, carried out by two copies of the library, which must not differ.

    scripts     makes a script: a list of plain values that says what to do, from one seed
    actor       carries it out with the copy that it finds, and writes down everything that a user could see
    __main__    lets two copies act in two processes and compares what they wrote down

It judges redesigns: what a user sees before and after is the same, to the letter. So an actor uses public names only.
"""
