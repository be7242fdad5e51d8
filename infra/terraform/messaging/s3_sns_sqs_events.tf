# The way of an event.
#
#   standard:  bucket ──▶ SNS topic ──▶ queue ──(max_receive_count)──▶ dead letters
#   FIFO:      bucket ──▶ EventBridge ──▶ queue.fifo ──────────────▶ dead letters.fifo
#                              └──(cannot deliver)──▶ undelivered
#
# S3 can announce to neither a FIFO topic nor a FIFO queue, so the FIFO way goes by EventBridge.
# What that order is worth is said in README.md.

data "aws_caller_identity" "here" {}

data "aws_partition" "here" {}

locals {
  account    = data.aws_caller_identity.here.account_id
  bucket_arn = "arn:${data.aws_partition.here.partition}:s3:::${var.bucket}"
}

resource "aws_sns_topic" "events" {
  count = var.fifo ? 0 : 1

  name              = "${var.name}-events"
  kms_master_key_id = var.kms_key_arn
  tags              = var.tags
}

resource "aws_sqs_queue" "events" {
  name                       = "${var.name}-events${local.fifo_ending}"
  visibility_timeout_seconds = local.policy.visibility_seconds
  message_retention_seconds  = local.policy.retention_seconds
  receive_wait_time_seconds  = local.policy.wait_seconds

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = local.policy.max_receive_count
  })

  fifo_queue                  = var.fifo
  content_based_deduplication = var.fifo ? true : null
  deduplication_scope         = var.fifo ? "messageGroup" : null
  fifo_throughput_limit       = var.fifo ? "perMessageGroupId" : null

  kms_master_key_id       = var.kms_key_arn
  sqs_managed_sse_enabled = var.kms_key_arn == null ? true : null
  tags                    = var.tags
}

# A FIFO queue's dead letters are FIFO too.
resource "aws_sqs_queue" "dead_letters" {
  name                      = "${var.name}-dead-letters${local.fifo_ending}"
  message_retention_seconds = local.policy.dead_letter_retention_seconds

  fifo_queue                  = var.fifo
  content_based_deduplication = var.fifo ? true : null

  kms_master_key_id       = var.kms_key_arn
  sqs_managed_sse_enabled = var.kms_key_arn == null ? true : null
  tags                    = var.tags
}

# What EventBridge itself could not deliver. It accepts only a standard queue for that.
resource "aws_sqs_queue" "undelivered" {
  count = var.fifo ? 1 : 0

  name                      = "${var.name}-undelivered"
  message_retention_seconds = local.policy.dead_letter_retention_seconds

  kms_master_key_id       = var.kms_key_arn
  sqs_managed_sse_enabled = var.kms_key_arn == null ? true : null
  tags                    = var.tags
}

# Raw: the message is the notification itself. Headgate reads both forms; this one is smaller.
# What SNS cannot deliver goes where everything goes that needs a person.
resource "aws_sns_topic_subscription" "events" {
  count = var.fifo ? 0 : 1

  topic_arn            = aws_sns_topic.events[0].arn
  protocol             = "sqs"
  endpoint             = aws_sqs_queue.events.arn
  raw_message_delivery = true

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
  })

  depends_on = [aws_sqs_queue_policy.dead_letters]
}

# A bucket has one notification configuration: this resource owns all of it, and replaces what
# somebody set by hand.
resource "aws_s3_bucket_notification" "events" {
  bucket      = var.bucket
  eventbridge = var.fifo

  dynamic "topic" {
    for_each = aws_sns_topic.events

    content {
      topic_arn     = topic.value.arn
      events        = var.events
      filter_prefix = var.prefix == "" ? null : var.prefix
      filter_suffix = var.suffix == "" ? null : var.suffix
    }
  }

  # S3 sends a test event at once and refuses a topic it may not publish to; and an event that
  # arrives before the subscription is an event that nobody hears.
  depends_on = [aws_sns_topic_policy.events, aws_sns_topic_subscription.events, aws_sqs_queue_policy.events]
}

resource "aws_cloudwatch_event_rule" "events" {
  for_each = local.fifo_groups

  name        = "${var.name}-${each.key}"
  description = "Objects of ${var.bucket}/${each.value} for ${aws_sqs_queue.events.name}"
  tags        = var.tags

  # Prefix and suffix of one field must both match: a wildcard says both. A bucket's own name
  # cannot hold one, a key's may, and is then escaped.
  event_pattern = jsonencode({
    source      = ["aws.s3"]
    detail-type = local.eventbridge_types
    account     = [local.account]
    detail = {
      bucket = { name = [var.bucket] }
      object = { key = [{ wildcard = "${replace(each.value, "*", "\\*")}*${replace(var.suffix, "*", "\\*")}" }] }
    }
  })
}

resource "aws_cloudwatch_event_target" "events" {
  for_each = local.fifo_groups

  rule = aws_cloudwatch_event_rule.events[each.key].name
  arn  = aws_sqs_queue.events.arn

  # A group is fixed text here: EventBridge cannot take it from the object's key.
  sqs_target {
    message_group_id = each.key
  }

  # EventBridge's own longest patience.
  retry_policy {
    maximum_event_age_in_seconds = 86400
    maximum_retry_attempts       = 185
  }

  dead_letter_config {
    arn = aws_sqs_queue.undelivered[0].arn
  }

  depends_on = [aws_sqs_queue_policy.undelivered]
}
