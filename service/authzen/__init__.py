"""OpenID AuthZEN Authorization API 1.0: other services ask what this platform would let somebody do, and enforce it.

A caller is an API key with the scope `decisions:evaluate`; every question is about the tenant of the key. Read are:

| AuthZEN | here |
| --- | --- |
| `subject.type`, `subject.id` | `user` (by id or e-mail), `api_key`, `workload_identity` |
| `action.name` | an operation of the catalogue, or its last part where the resource's type says the rest |
| `action.properties` | the request's tags: text; numbers and booleans as JSON writes them |
| `resource.type`, `resource.id` | a kind of the inventory (`instance`) and an id or `frn:…`; `tenant`; `organization` |
| `resource.id` `*` | with `create`: what does not exist yet; its region is `resource.properties.region` |
| `context.ip` | the address the request came from; left out, it is not known |
| `context.time` | its instant, RFC 3339; left out, it is now |

Nothing else of a request reaches a decision. What is held of a subject (role, scopes, groups, policies, who made it)
and of a resource (kind, region, tags) is what is stored, whatever `properties` say. A decision is what the platform's
own routes would do for that subject; whoever or whatever is not there is refused in the same words as one who may not.
"""
