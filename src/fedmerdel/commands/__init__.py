"""The commands of the command line: those of a site, those of the centre, what they show."""
