-- A node is healthy when its blocking gates are ready.
local status = obj.status or {}

local ready = nil
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" then
    ready = condition
  end
end

if ready == nil or (status.observedGeneration or 0) < (obj.metadata.generation or 0) then
  return { status = "Progressing", message = "No worker has reconciled the gates yet" }
end
if ready.status ~= "True" then
  return { status = ready.reason == "Flapping" and "Degraded" or "Progressing", message = ready.message }
end
return { status = "Healthy", message = ready.message }
