"""Random scenarios on a virtual clock, judged by the other side and the record; see `explore`."""
