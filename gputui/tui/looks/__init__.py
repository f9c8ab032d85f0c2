"""How things look, by what they mean: colours and signs for dark, light, sixteen colours and none.

What may enter: tables of looks, and how a band is drawn. What is shown where is for the widgets.
Called by everything that paints.
"""
