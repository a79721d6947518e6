"""Causes of a verdict: extra launches after a race, on which counters and stacks show what each response costs."""
