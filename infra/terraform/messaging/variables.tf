variable "name" {
  description = "What the topic, the queues and the alarms are called, as in \"rain\"."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,47}$", var.name))
    error_message = "Use lower-case letters, digits and -, beginning with a letter, up to 48."
  }
}

variable "bucket" {
  description = "The bucket whose objects are announced. It exists already."
  type        = string
}

variable "prefix" {
  description = "Only objects below this prefix are announced and may be read."
  type        = string
  default     = ""
}

variable "suffix" {
  description = "Only objects that end like this are announced, as in \".csv\"."
  type        = string
  default     = ""
}

variable "events" {
  description = "What is announced. Headgate takes in creations and removals."
  type        = list(string)
  default     = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]
}

variable "fifo" {
  description = "Use a FIFO queue, fed by EventBridge: S3 can announce to no FIFO topic or queue."
  type        = bool
  default     = false
}

variable "fifo_groups" {
  description = "With fifo: message groups and the prefix of each. Order is kept within a group. Empty: one group for everything below var.prefix."
  type        = map(string)
  default     = {}
}

variable "consumer" {
  description = "Who takes from the queue and when it acknowledges: \"admitted\" (headgate up), \"finalized\" (headgate up, ack=\"finalized\") or \"lambda\"."
  type        = string
  default     = "admitted"

  validation {
    condition     = contains(["admitted", "finalized", "lambda"], var.consumer)
    error_message = "Use \"admitted\", \"finalized\" or \"lambda\"."
  }
}

variable "policy_file" {
  description = "The queue's numbers. The default is the policy of Headgate's own defaults; for a pipeline with another retry plan: headgate contract show FILE.py --queue-policy > policy.json"
  type        = string
  default     = null
}

variable "kms_key_arn" {
  description = "A KMS key for topic and queues. Its key policy must let S3, SNS and EventBridge use it (README). Without one, SQS encrypts with keys of its own."
  type        = string
  default     = null
}

variable "bucket_kms_key_arn" {
  description = "The KMS key the bucket's objects are encrypted with, if there is one: the consumer may then decrypt with it."
  type        = string
  default     = null
}

variable "alarm_actions" {
  description = "What an alarm that wakes somebody calls (Sev2), such as the ARN of a pager's topic."
  type        = list(string)
  default     = []
}

variable "ticket_actions" {
  description = "What an alarm that can wait until morning calls (Sev3)."
  type        = list(string)
  default     = []
}

variable "runbooks_url" {
  description = "Where docs/runbooks/reliability is published; the alarms link there."
  type        = string

  validation {
    condition     = can(regex("^https?://.*[^/]$", var.runbooks_url))
    error_message = "Give a web address that does not end in a slash."
  }
}

variable "tags" {
  description = "Tags for everything that can have them."
  type        = map(string)
  default     = {}
}
