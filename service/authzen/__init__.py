"""OpenID AuthZEN Authorization API 1.0: other services ask for decisions and enforce them.

The client is an API key with the scope `decisions:evaluate`; all requests concern the tenant of the key.

| AuthZEN | frost |
| --- | --- |
| `subject.type`, `subject.id` | `user` (id or e-mail), `api_key`, `workload_identity` |
| `action.name` | an operation of the catalogue, or its last part if the resource's type implies the rest |
| `action.properties` | tags of the request: text; numbers and booleans as in JSON |
| `resource.type`, `resource.id` | a resource kind (`instance`) and an id or `frn:…`; `tenant`; `organization` |
| `resource.id` `*` | with `create`: a new resource; its region is `resource.properties.region` |
| `context.ip` | the source address; unknown if absent |
| `context.time` | the time of the request, RFC 3339; now if absent |

Other members do not influence a decision. Attributes of a subject (role, scopes, groups, policies, authors) and of a
resource (kind, region, tags) are those in the database, not those in `properties`. Decisions equal those of the
platform's own routes. An unknown subject or resource gets the same answer as a denied one.
"""
