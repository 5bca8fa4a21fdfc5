"""What the hardware is to a kernel: stores, global memory, operand types, order of calls, the cube, refusals."""
