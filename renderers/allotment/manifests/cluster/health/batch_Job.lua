-- Health of a Job. One of Allotment's that its own rule ended found its volume complete, and is well. Of any other this says what Argo CD's own
-- check says.
local metadata, status = obj.metadata or {}, obj.status or {}
local ours = (metadata.labels or {})["app.kubernetes.io/managed-by"] == "allotment"
local ended, failed, suspended = false, false, false
local message, why = "", ""

for _, one in ipairs(status.conditions or {}) do
  if one.type == "Failed" then
    if ours and one.status == "True" and one.reason == "PodFailurePolicy" then
      return {status = "Healthy", message = "its volume was filled before"}
    end
    ended, failed, why = true, true, one.message or ""
  elseif one.type == "Complete" then
    ended, message = true, one.message or ""
  elseif one.type == "Suspended" then
    ended, message = true, one.message or ""
    suspended = suspended or one.status == "True"
  end
end

if not ended then
  return {status = "Progressing", message = message}
end
if failed then
  return {status = "Degraded", message = why}
end
if suspended then
  return {status = "Suspended", message = why}
end
return {status = "Healthy", message = message}
