// The tasks.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

// Behavior cloning in environments with long-term dependencies.
TaskSpec behavior_cloning_task();

// Classification of documents or images.
TaskSpec classification_task();

// Autoregressive image modeling.
TaskSpec image_generation_task();

// Language modeling on parallel streams of a corpus.
TaskSpec language_model_task();

// Reinforcement learning in environments.
TaskSpec reinforcement_learning_task();

// Tagging: a tag for each word of a sentence.
TaskSpec tagging_task();

// Sequence-to-sequence tasks (translation, pronunciation, summarization) on two parallel files.
TaskSpec translation_task();

}  // namespace longspan
