"""Neural style transfer: the network, and the bank of style codes that it paints with."""
