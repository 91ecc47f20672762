"""A thousand doubts of three kinds, settled in the console by what its pages and the other sides' statements say."""
