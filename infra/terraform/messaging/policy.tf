# The numbers are not written here: policy.json is generated from the retry policy in Headgate's
# code, and a test fails when the two differ.

locals {
  policies = jsondecode(file(coalesce(var.policy_file, "${path.module}/policy.json")))
  policy   = local.policies[var.consumer]

  fifo_ending = var.fifo ? ".fifo" : ""

  # One rule, and with it one message group, for each prefix.
  fifo_groups = var.fifo ? (length(var.fifo_groups) > 0 ? var.fifo_groups : { all = var.prefix }) : {}

  # EventBridge speaks of creations and deletions only.
  eventbridge_types = compact([
    anytrue([for e in var.events : startswith(e, "s3:ObjectCreated:")]) ? "Object Created" : "",
    anytrue([for e in var.events : startswith(e, "s3:ObjectRemoved:")]) ? "Object Deleted" : "",
  ])
}
