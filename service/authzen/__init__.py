"""OpenID AuthZEN Authorization API 1.0: decisions for services that enforce them.

The client is an API key with the scope `decisions:evaluate`; requests concern its tenant.

| AuthZEN | frost |
| --- | --- |
| `subject.type`, `subject.id` | `user` (id or e-mail), `api_key`, `workload_identity` |
| `action.name` | an operation, or its last part if the resource type implies the rest |
| `action.properties` | request tags; numbers and booleans as in JSON |
| `resource.type`, `resource.id` | a resource kind and an id or `frn:…`; `tenant`; `organization` |
| `resource.id` `*` | with `create`: a new resource in `resource.properties.region` |
| `context.ip` | source address; unknown if absent |
| `context.time` | RFC 3339 time; now if absent |

Other members are ignored: attributes of subjects and resources are read from the database. Decisions equal those of the
platform's routes. Unknown subjects and resources are denied with the same response.
"""
