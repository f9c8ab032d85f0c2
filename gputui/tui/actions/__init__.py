"""Actions of the main screen and the views. `table` lists them with their keys; the other modules implement them."""
