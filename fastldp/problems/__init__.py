"""Problems: what every one must answer, linear models, networks, and what is public or assumed of them."""
