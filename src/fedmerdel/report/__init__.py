"""Pages and their pictures: from plain numbers to one HTML file that needs no network.

What the numbers are is decided elsewhere (`model.report`, `release.review_page`); here they are
only shown. Every text goes through the templates' escaping.
"""
