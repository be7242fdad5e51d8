output "queue_url" {
  description = "For the pipeline: hg.S3Events(queue=…)."
  value       = aws_sqs_queue.events.url
}

output "queue_arn" {
  description = "For an event source mapping of a Lambda."
  value       = aws_sqs_queue.events.arn
}

output "dead_letters_url" {
  description = "For the pipeline, which drains it into quarantine: hg.S3Events(dead_letters=…)."
  value       = aws_sqs_queue.dead_letters.url
}

output "undelivered_url" {
  description = "With fifo: what EventBridge could not deliver."
  value       = one(aws_sqs_queue.undelivered[*].url)
}

output "topic_arn" {
  description = "The topic, for others who want to hear the same events. None with fifo."
  value       = one(aws_sns_topic.events[*].arn)
}

output "consumer_policy_arn" {
  description = "Attach it to the role of the workers."
  value       = aws_iam_policy.consumer.arn
}

output "doctor_policy_arn" {
  description = "Attach it to whoever runs headgate doctor."
  value       = aws_iam_policy.doctor.arn
}

output "policy" {
  description = "The numbers in use."
  value       = local.policy
}
