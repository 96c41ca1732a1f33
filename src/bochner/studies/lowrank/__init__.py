"""Low-rank kernel matrices: the tables and figures of Bhardwaj 2015, chapter 5, beside ours."""
