"""An explorer of schedules: threads run one at a time, and are made to hand on at every place where that could matter.

A race shows itself only when the system happens to stop a thread in the one line where that hurts. Here nothing happens by
chance: all schedules with up to two preemptions are run, one after the other, and after each the laws are checked. Most races
need no more preemptions than that (M. Musuvathi and S. Qadeer, "Iterative context bounding for systematic testing of
multithreaded programs", PLDI 2007).

    control       threads, locks and time that obey a schedule
    explorer      all schedules of a scenario, the simplest first
    scenarios     what the threads do, and the laws
    samples       small programs with known mistakes: would it notice?
    workers       a scheduler for feeds, of two threads
    flows         the same for what shares a thread: tasks, generators and greenlets, between any two of their operations

Rule of this package: it knows the names of modules, and the public names of reactdb. It preempts at the lines of those modules,
whatever they are, and puts its locks in the place of Python's, so that it need not be changed where they are.
"""
