-- Health of an Application: an add-on's is as well as what it installs, so that those of the next wave come after it. Any
-- other is Healthy here, so that a tenant's trouble holds up nobody: how it is, it says itself. A health that is nothing would
-- be waited for without end.
--
-- A sync that waits for something Progressing takes no newer commit, and Argo CD ends no such wait. So an add-on that isn't up
-- yet is Degraded: the sync of all add-ons fails, and is tried again from the newest commit, as often as it takes.
local status = obj.status or {}
local labels = (obj.metadata or {}).labels or {}
local health, operation = status.health or {}, status.operationState or {}
local errors = {ComparisonError = true, InvalidSpecError = true, SyncError = true, UnknownError = true}

if labels["allotment.dev/add-on"] == nil then
  return {status = "Healthy", message = "how it is, its own page says"}
end
for _, one in ipairs(status.conditions or {}) do
  if errors[one.type] then
    return {status = "Degraded", message = one.message or one.type}
  end
end
if status.sync == nil or status.operationState == nil then
  return {status = "Progressing", message = "Argo CD hasn't begun with it"}
end
if status.sync.status ~= "Synced" then
  return {status = "Degraded", message = operation.message or "not synced"}
end
if health.status ~= "Healthy" and health.status ~= "Suspended" then
  return {status = "Degraded", message = "not up yet: " .. (health.status or "Unknown")}
end
return {status = health.status, message = ""}
