"""Small things that every room uses: text that is shown, logs, fault points. It knows no other room."""
