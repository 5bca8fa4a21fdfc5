"""Conv3DBackpropInput, file by file as its twin `filter`."""
