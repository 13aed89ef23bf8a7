-- A policy is healthy when every selected node has its gates. A gate without pods is on its way: its workload may be created later.
local status = obj.status or {}

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function health(status, message)
  return { status = status, message = message }
end

if conditions.GatesApplied == nil or (status.observedGeneration or 0) < (obj.metadata.generation or 0) then
  return health("Progressing", "No worker has reconciled the policy yet")
end

for _, type in ipairs({ "NodesAuthorized", "TaintTolerated", "OnePodPerNode", "GatesApplied", "SelectorsMatch" }) do
  local condition = conditions[type]
  if condition ~= nil and condition.status == "False" then
    local isOnItsWay = condition.reason == "InProgress" or condition.reason == "NoPods"
    return health(isOnItsWay and "Progressing" or "Degraded", condition.message)
  end
end
return health("Healthy", "The gates are set on " .. (status.nodes or 0) .. " nodes")
