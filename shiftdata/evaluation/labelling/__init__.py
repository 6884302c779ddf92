"""Labels that people give: what is asked, the file they are kept in, the page that asks, agreement."""
