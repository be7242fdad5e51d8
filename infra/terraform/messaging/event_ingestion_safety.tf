# Who may do what, and when somebody is told.

locals {
  # The service that sends, and the only things of ours it may send from.
  sender_service = var.fifo ? "events.amazonaws.com" : "sns.amazonaws.com"
  rule_arns      = values(aws_cloudwatch_event_rule.events)[*].arn
  sender_arns    = concat(aws_sns_topic.events[*].arn, local.rule_arns)
}

# S3 may publish, from this bucket of this account. The account is checked too: a bucket that is
# deleted can be made again by a stranger, under the same name.
data "aws_iam_policy_document" "topic" {
  count = var.fifo ? 0 : 1

  statement {
    sid       = "OnlyThisBucketMayPublish"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.events[0].arn]

    principals {
      type        = "Service"
      identifiers = ["s3.amazonaws.com"]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [local.bucket_arn]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }
  }

  statement {
    sid       = "OnlyByTls"
    effect    = "Deny"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.events[0].arn]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sns_topic_policy" "events" {
  count = var.fifo ? 0 : 1

  arn    = aws_sns_topic.events[0].arn
  policy = data.aws_iam_policy_document.topic[0].json
}

data "aws_iam_policy_document" "queue" {
  statement {
    sid       = "OnlyOurSenderMaySend"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.events.arn]

    principals {
      type        = "Service"
      identifiers = [local.sender_service]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = local.sender_arns
    }
  }

  statement {
    sid       = "OnlyByTls"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.events.arn]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "events" {
  queue_url = aws_sqs_queue.events.url
  policy    = data.aws_iam_policy_document.queue.json
}

# SQS itself moves messages here without a policy; the subscription's own dead letters need one.
data "aws_iam_policy_document" "dead_letters" {
  dynamic "statement" {
    for_each = aws_sns_topic.events

    content {
      sid       = "UndeliveredBySns"
      actions   = ["sqs:SendMessage"]
      resources = [aws_sqs_queue.dead_letters.arn]

      principals {
        type        = "Service"
        identifiers = ["sns.amazonaws.com"]
      }

      condition {
        test     = "ArnEquals"
        variable = "aws:SourceArn"
        values   = [statement.value.arn]
      }
    }
  }

  statement {
    sid       = "OnlyByTls"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.dead_letters.arn]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "dead_letters" {
  queue_url = aws_sqs_queue.dead_letters.url
  policy    = data.aws_iam_policy_document.dead_letters.json
}

# No other queue may use these dead letters as its own.
resource "aws_sqs_queue_redrive_allow_policy" "dead_letters" {
  queue_url = aws_sqs_queue.dead_letters.url

  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.events.arn]
  })
}

data "aws_iam_policy_document" "undelivered" {
  count = var.fifo ? 1 : 0

  statement {
    sid       = "UndeliveredByOurRules"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.undelivered[0].arn]

    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = local.rule_arns
    }
  }

  statement {
    sid       = "OnlyByTls"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.undelivered[0].arn]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "undelivered" {
  count = var.fifo ? 1 : 0

  queue_url = aws_sqs_queue.undelivered[0].url
  policy    = data.aws_iam_policy_document.undelivered[0].json
}

# What a worker needs, and no more: take from two queues, read below one prefix.
data "aws_iam_policy_document" "consumer" {
  statement {
    sid = "TakeFromTheQueues"
    actions = [
      "sqs:ChangeMessageVisibility",
      "sqs:DeleteMessage",
      "sqs:GetQueueAttributes",
      "sqs:GetQueueUrl",
      "sqs:ReceiveMessage",
    ]
    resources = concat(
      [aws_sqs_queue.events.arn, aws_sqs_queue.dead_letters.arn],
      aws_sqs_queue.undelivered[*].arn,
    )
  }

  statement {
    sid       = "ReadTheObjects"
    actions   = ["s3:GetObject", "s3:GetObjectVersion"]
    resources = ["${local.bucket_arn}/${var.prefix}*"]
  }

  # Without it S3 answers 403 for an object that is not there, and what is missing looks forbidden.
  statement {
    sid       = "TellMissingFromForbidden"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket_arn]

    dynamic "condition" {
      for_each = var.prefix == "" ? [] : [var.prefix]

      content {
        test     = "StringLike"
        variable = "s3:prefix"
        values   = ["${condition.value}*"]
      }
    }
  }

  dynamic "statement" {
    for_each = toset(compact([var.kms_key_arn, var.bucket_kms_key_arn]))

    content {
      sid       = "Decrypt${substr(sha256(statement.value), 0, 8)}"
      actions   = ["kms:Decrypt"]
      resources = [statement.value]
    }
  }
}

resource "aws_iam_policy" "consumer" {
  name        = "${var.name}-consumer"
  description = "Headgate's workers: take from ${aws_sqs_queue.events.name}, read ${var.bucket}/${var.prefix}"
  policy      = data.aws_iam_policy_document.consumer.json
  tags        = var.tags
}

# What `headgate doctor` asks beyond that. It only reads.
data "aws_iam_policy_document" "doctor" {
  statement {
    sid       = "LookAtTheBucket"
    actions   = ["s3:GetBucketNotification", "s3:GetBucketVersioning"]
    resources = [local.bucket_arn]
  }

  dynamic "statement" {
    for_each = aws_sns_topic.events

    content {
      sid       = "LookAtTheTopic"
      actions   = ["sns:GetSubscriptionAttributes", "sns:ListSubscriptionsByTopic"]
      resources = [statement.value.arn]
    }
  }
}

resource "aws_iam_policy" "doctor" {
  name        = "${var.name}-doctor"
  description = "headgate doctor: look at ${var.bucket} and what announces its objects"
  policy      = data.aws_iam_policy_document.doctor.json
  tags        = var.tags
}

# Sev2: somebody looks now.
resource "aws_cloudwatch_metric_alarm" "dead_letters" {
  alarm_name        = "${var.name}-dead-letters"
  alarm_description = "Sev2. Messages of ${aws_sqs_queue.events.name} were given up. Runbook: ${var.runbooks_url}/dead-letters.html"

  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.dead_letters.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  threshold           = local.policy.alarm_dead_letters
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"

  alarm_actions = var.alarm_actions
  ok_actions    = var.alarm_actions
  tags          = var.tags
}

resource "aws_cloudwatch_metric_alarm" "undelivered" {
  count = var.fifo ? 1 : 0

  alarm_name        = "${var.name}-undelivered"
  alarm_description = "Sev2. EventBridge could not deliver to ${aws_sqs_queue.events.name}. Runbook: ${var.runbooks_url}/dead-letters.html"

  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.undelivered[0].name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  threshold           = local.policy.alarm_dead_letters
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"

  alarm_actions = var.alarm_actions
  ok_actions    = var.alarm_actions
  tags          = var.tags
}

resource "aws_cloudwatch_metric_alarm" "age" {
  alarm_name        = "${var.name}-oldest-message"
  alarm_description = "Sev2. The oldest message of ${aws_sqs_queue.events.name} waits too long: nobody takes it in. Runbook: ${var.runbooks_url}/stuck-or-slow.html"

  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = aws_sqs_queue.events.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 5
  threshold           = local.policy.alarm_age_seconds
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"

  alarm_actions = var.alarm_actions
  ok_actions    = var.alarm_actions
  tags          = var.tags
}

# Sev3: it can wait until morning.
resource "aws_cloudwatch_metric_alarm" "backlog" {
  alarm_name        = "${var.name}-backlog"
  alarm_description = "Sev3. ${aws_sqs_queue.events.name} grows faster than it is taken in. Runbook: ${var.runbooks_url}/queue-backlog.html"

  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.events.name }
  statistic           = "Minimum"
  period              = 300
  evaluation_periods  = 3
  threshold           = local.policy.alarm_backlog_messages
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"

  alarm_actions = var.ticket_actions
  ok_actions    = var.ticket_actions
  tags          = var.tags
}
