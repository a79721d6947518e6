"""Whether this machine is fit for races: examinations, and its noise floor."""
