"""A server's speed over stored races, relative to a contender that did not change, and the changes in it.

``series`` collects the points, ``change_points`` finds where their level changed. Arithmetic on records only.
"""

from dragstrip.history.change_points import Change, changes, cuts
from dragstrip.history.series import Point, Series, collect
