// The reference: what keys there are, of all families or for one configuration, searched by words.
#pragma once

#include <string>
#include <vector>

#include "framework/options/options.h"
#include "launch/cli/configuration.h"

namespace longspan {

// Every key of every family.
std::vector<OptionDescription> configuration_reference();

// The keys of the configuration's family, with what the configuration sets and where.
std::vector<OptionDescription> reference_of(const Configuration& configuration);

// The keys that each of the words is about: all of a section or, for a word with a dot, all keys
// that begin so; else those of which a word of the name, of the meaning or of the field's names
// begins so, in capitals or not. Throws ConfigurationError, with the nearest key, where nothing is
// left.
std::vector<OptionDescription> search(std::vector<OptionDescription> reference,
                                      const std::vector<std::string>& words);

// Sentences about words of the field that are no key here, but an option of a command or nothing.
std::vector<std::string> notes_about(const std::vector<std::string>& words);

// Whether it is a file's name rather than a word to look for: no key has a slash or ends so.
bool names_file(const std::string& word);

}  // namespace longspan
