"""From scored rollouts to candidate skills: reflection, merging, selection, update, slow update."""
