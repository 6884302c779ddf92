"""Small raw trees as the authors of public datasets lay them out, odd cases included; all drawn here."""
