"""Conv3DBackpropFilter, file by file as its twin `input`."""
