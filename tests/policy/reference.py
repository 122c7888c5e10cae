"""A slow second implementation of the policy language, to compare the engine with."""

from datetime import UTC, datetime
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from client.policy.model import AccessRequest, Constraint, RequestContext, Rule

TRUE, FALSE, UNKNOWN = "true", "false", "unknown"


def like(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(like(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and text[0] == pattern[0] and like(pattern[1:], text[1:])


def operation_matches(pattern: str, operation: str) -> bool:
    parts = pattern.split(":")
    while len(parts) < 3:
        parts.append("*")
    return all(mine in ("*", other) for mine, other in zip(parts, operation.split(":"), strict=True))


def target_truth(pattern: str, target: str) -> str:
    if pattern == "*":
        pattern = "frn:*:*:*:*/*"
    if target == "*":
        target = "frn:*:*:*:*/*"
    result = TRUE
    mine, other = pattern.split(":", 4)[1:], target.split(":", 4)[1:]
    mine[3:], other[3:] = mine[3].split("/", 1), other[3].split("/", 1)
    for place, (asked, given) in enumerate(zip(mine, other, strict=True)):
        if asked == "*":
            continue
        if given == "*":
            result = UNKNOWN
        elif not (like(asked, given) if place == 4 else asked == given):
            return FALSE
    return result


def block(text: str) -> IPv4Network | IPv6Network:
    """A block of addresses; one of mapped addresses is the block of version 4 that it maps."""
    found = ip_network(text)
    if found.version == 6 and found.network_address.ipv4_mapped is not None and found.prefixlen >= 96:
        return IPv4Network((found.network_address.ipv4_mapped, found.prefixlen - 96))
    return found


def constraint_truth(constraint: Constraint, facts: RequestContext) -> str:
    operator, key, values = constraint
    if key == "frn:sourceIp":
        if facts.source_ip is None:
            return UNKNOWN
        version, number = facts.source_ip
        address = ip_address(number.to_bytes(4 if version == 4 else 16, "big"))
        blocks = [block(value) for value in values]
        return TRUE if any(address in one for one in blocks if one.version == version) else FALSE
    if key == "frn:currentTime":
        if facts.current_time is None:
            return UNKNOWN
        now, limit = datetime.fromtimestamp(facts.current_time, UTC), datetime.fromisoformat(values[0])
        return TRUE if (now < limit if operator == "before" else now > limit) else FALSE
    tag = key.partition("/")[2]
    if key.startswith(("frn:requestTag/", "frn:resourceTag/")):
        tags = facts.request_tags if key.startswith("frn:requestTag/") else facts.resource_tags
        if tags is None:
            return UNKNOWN
        if tag not in tags:
            return TRUE if operator == "notEquals" else FALSE
        value = tags[tag]
    else:
        known = {"frn:region": facts.region, "frn:principalType": facts.principal_type, "frn:tenant": facts.tenant}[key]
        if known is None:
            return UNKNOWN
        value = known
    if operator == "equals":
        return TRUE if value == values[0] else FALSE
    if operator == "notEquals":
        return TRUE if value != values[0] else FALSE
    return TRUE if like(values[0], value) else FALSE


def rule_truth(rule: Rule, question: AccessRequest) -> str:
    if not any(operation_matches(pattern, question.operation) for pattern in rule.operation_texts):
        return FALSE
    targets = [target_truth(pattern, question.target) for pattern in rule.target_texts]
    parts = [TRUE if TRUE in targets else UNKNOWN if UNKNOWN in targets else FALSE]
    parts += [constraint_truth(constraint, question.context) for constraint in rule.constraints]
    if FALSE in parts:
        return FALSE
    return UNKNOWN if UNKNOWN in parts else TRUE


def decide(rules: list[Rule], question: AccessRequest) -> int:
    """The number of the deciding rule, from 1, negative for a deny; 0 when nothing matches."""
    truths = [rule_truth(rule, question) for rule in rules]
    for number, (rule, truth) in enumerate(zip(rules, truths, strict=True), 1):
        if rule.effect == "deny" and truth != FALSE:
            return -number
    for number, (rule, truth) in enumerate(zip(rules, truths, strict=True), 1):
        if rule.effect == "allow" and truth == TRUE:
            return number
    return 0
