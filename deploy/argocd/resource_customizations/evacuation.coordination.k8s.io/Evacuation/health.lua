-- An Evacuation exists until its pod is gone. It is degraded when the pod cannot leave unless a user acts; a budget may allow it by itself.
local status = obj.status or {}

for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Blocked" and condition.status == "True" then
    local isTransient = condition.reason == "DisruptionBudget"
    return { status = isTransient and "Progressing" or "Degraded", message = condition.message }
  end
end
if status.message ~= nil and status.message ~= "" then
  return { status = "Progressing", message = status.message }
end
return { status = "Progressing", message = "The pod is asked to leave its node" }
