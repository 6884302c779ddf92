"""Many trainings: sweeps into records, selection and reports from records. Needs torch to train, not to read.

read_sweep, run_sweep    a sweep as data, and its runs: resumable, on one machine or many
price                    the runs, hours and disk of a sweep, from a few steps of each kind of run
Records                  every evaluation of every run; folders of several machines are read as one
report                   tables, comparisons, ranks, a page of records
leaderboard              predictions of anybody, judged again and ranked: a package of its own
select, RULES            a trial and a step of each study, by a named rule; nothing is trained again
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
