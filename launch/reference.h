// The reference: what keys there are, of all families or for one configuration, searched by words.
#pragma once

#include <string>
#include <vector>

#include "framework/core/options.h"
#include "launch/configuration.h"

namespace longspan {

// Every key of every family.
std::vector<OptionDescription> configuration_reference();

// The keys of the configuration's family, with what the configuration sets and where.
std::vector<OptionDescription> reference_of(const Configuration& configuration);

// The keys that each of the words is about: all of a section or, for a word with a dot, all keys
// that begin so; else those that have it in their name or meaning, in capitals or not. Throws
// ConfigurationError, with the nearest key, where nothing is left.
std::vector<OptionDescription> search(std::vector<OptionDescription> reference,
                                      const std::vector<std::string>& words);

// Whether it is a file's name rather than a word to look for: no key has a slash or ends so.
bool names_file(const std::string& word);

}  // namespace longspan
