-- Health of EngineCluster and RoutingRule in Argo CD: what the conditions Stalled and Ready say.
-- A cluster whose health checks fail is not degraded here: maintenance must not block a sync (see condition Healthy).
local health = { status = "Progressing", message = "Waiting for the gateway" }
if obj.status == nil or obj.status.conditions == nil then
  return health
end
if obj.status.observedGeneration ~= nil and obj.status.observedGeneration < obj.metadata.generation then
  return health
end
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Stalled" and condition.status == "True" then
    return { status = "Degraded", message = condition.message }
  end
  if condition.type == "Ready" then
    health.message = condition.message
    if condition.status == "True" then
      health.status = "Healthy"
    end
  end
end
return health
