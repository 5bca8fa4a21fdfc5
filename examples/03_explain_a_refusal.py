"""Why a product refuses a layer, what the others say, and the changed call that is accepted."""

import convgrad

for line in (
    "conv n8 c64>64 i56x56 k3x3 p1 fp32 on=910",
    "conv n1 c1>8 i16000 k400 s10 p255 fp16 on=A2",
    "conv n2 c16>16 i8x32x32 k3 p1 bf16 on=310P",
):
    print(convgrad.explain(convgrad.Request.parse(line)))
    print()

# The same for programs: walk along the proposed changes until the contract accepts the call.
request = convgrad.Request.parse("conv n2 c16>16 i32x32 k3 p1 bf16 math=fp16 on=A2")
explanation = convgrad.explain(request)
for way in explanation.ways:
    print("accepted" if way.accepted else "advice  ", way.line if way.accepted else way.text)
