"""The swarm: everything that can happen to a file at once, from one seed, for a given time.

    python -m tests.swarm --minutes 10 [--seed 1] [--rounds 3] [--break NAME] [--prove]

Processes write to one file natively and through a server with every dialect, deliver its changes by durable consumers and a feed,
and synchronise it with a second file. Meanwhile they are killed and suspended, the disk is full, flushes are slow, the clock
jumps, and history is compacted, retained and backed up. After each round all processes end, and a referee, which was told each
write before the next one began, compares both files and every way out of them with what it knows.

    schedule    what is done in each round, and when, from the seed
    workers     what each process does, and what it says of it
    stage       starts the processes, carries out the schedule, hears what they say
    referee     what must be true after a round
    mistakes    what can be broken on purpose, to show that the referee notices
"""
