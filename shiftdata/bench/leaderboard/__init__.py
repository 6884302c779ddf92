"""The leaderboard: figures computed again from predictions, ranked on each task.

A submission is a file of predictions by key with a method card (`submission`), made of the records of a sweep
or of any predictions (`submitting`). It is judged (`judging`), ranked and shown (`board`).
"""

from shiftdata.bench.leaderboard.board import Board as Board
from shiftdata.bench.leaderboard.board import leaderboard as leaderboard
from shiftdata.bench.leaderboard.submission import Submission as Submission
