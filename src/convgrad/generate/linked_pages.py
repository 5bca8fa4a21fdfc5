"""Pages about what the vendor's documents link to and do not tell: return codes, promotion of dtypes."""

from __future__ import annotations

from convgrad.core import determinism, dtypes
from convgrad.core.precision import promote
from convgrad.rules.check import ALL_RULES
from convgrad.rules.codes import CODES
from convgrad.text.language import chinese
from convgrad.text.terminal import EXIT_CODES


def return_codes_page() -> str:
    """docs/generated/return_codes.md: every code, in both languages."""
    lines = [
        "# Return codes · aclnn返回码", "",
        "What each code means, what to try, and what gives it here. `convgrad explain CODE` says the same, with every "
        "rule that gives the code; `convgrad explain` with a problem line says why that call gets it.", "",
        "每个返回码的含义、建议，以及本项目中由谁给出。"
        "`convgrad explain 返回码 --language zh` 给出同样的内容以及相应的规则。", "",
        "| code | name | meaning | 含义 | to try | 建议 | here |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in CODES:
        rules = sum(str(int(rule.status)) == row.code for rule in ALL_RULES)
        given = [row.here] if row.here else []
        given += [f"[{rules} rows](rules.md)"] if rules else []
        cells = (row.code, f"`{row.name}`", row.en, row.zh, row.try_en, row.try_zh, ", ".join(given))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def exit_codes_page() -> str:
    """docs/generated/exit_codes.md: what commands tell the shell, in both languages."""
    lines = [
        "# Exit codes · 退出码", "",
        "What every command of `convgrad` tells the shell. Of several outcomes the gravest counts: a case that could "
        "not be run, then a precision that fails, then a refusal.", "",
        "`convgrad` 的每个命令返回给 shell 的退出码。有多种结果时取最严重的："
        "无法运行的用例，其次精度失败，再次被拒绝。", "",
        "| code | meaning | 含义 |", "|---|---|---|",
        *(f"| {int(code)} | {text} | {chinese(text)} |" for code, text in EXIT_CODES), "",
    ]  # fmt: skip
    return "\n".join(lines)


def promotion_page() -> str:
    """docs/generated/promotion.md: the dtype that two operands of different dtypes are computed in."""
    names = [row.name for row in dtypes.ALL if row.is_tensor_dtype]
    lines = [
        "# Promotion of dtypes · 互推导关系", "",
        "grad_output, input and weight may have different dtypes where the rules of the product allow it (see "
        "[rules](rules.md), and T9 in [contradictions](contradictions.md) for TBC). They are computed in the promoted "
        "dtype, which cubeMathType then acts on ([precision](precision.md)): the dtype they share; else float64 if one "
        "of them is; else float32. float16 with bfloat16 gives float32: neither holds the values of the other. The "
        "order does not matter, and three operands are promoted like two.", "",
        "gradOutput、input、weight 在产品规则允许时可以为不同的数据类型。"
        "计算使用互推导后的数据类型，cubeMathType 作用于该类型：三者相同则不变；否则有 float64 则为 float64；"
        "其余均为 float32。float16 与 bfloat16 互推导为 float32。", "",
        "|  | " + " | ".join(names) + " |", "|---|" + "---|" * len(names),
    ]  # fmt: skip
    for name in names:
        lines.append(f"| **{name}** | " + " | ".join(promote(name, other) for other in names) + " |")
    return "\n".join([*lines, ""])


def determinism_page() -> str:
    """docs/generated/determinism.md: levels and switches, in both languages."""
    lines = [
        "# Determinism levels · 确定性级别", "",
        "What the values of the switch promise on the device, and what convgrad does; how level 3 adds is told in "
        "[determinism](../determinism.md).", "",
        "开关各取值在设备上的承诺以及本项目的行为；级别 3 的累加方式见[确定性](../determinism.zh-CN.md)。", "",
        "| level | name | on the device | grad_input, forward | grad_weight, grad_bias |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for i, heading in enumerate((None, "| 级别 | 名称 | 设备 | grad_input、前向 | grad_weight、grad_bias |")):
        lines += ["", heading, "|---|---|---|---|---|"] if heading else []
        for row in determinism.LEVELS:
            cells = (str(row.number), row.name[i], row.device[i], row.samples[i], row.sums[i])
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## aclrtSetSysParamOpt, aclrtCtxSetSysParamOpt", "",
              "| option | number | values | meaning |", "|---|---|---|---|"]  # fmt: skip
    for option in determinism.SYSTEM_PARAMETERS:
        lines.append(f"| `{option.name}` | {option.number} | 0 to {option.largest} | {option.meaning} |")
    return "\n".join([*lines, ""])
