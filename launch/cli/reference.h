// Reference of configuration keys, of all families or one configuration, with search.
#pragma once

#include <string>
#include <vector>

#include "framework/options/options.h"
#include "launch/cli/configuration.h"

namespace longspan {

// Returns every key of every family.
std::vector<OptionDescription> configuration_reference();

// Returns the keys of the configuration's family, with their values and where they are set.
std::vector<OptionDescription> reference_of(const Configuration& configuration);

// Returns the keys that match all words, ignoring case. A word matches a full section, or, with a
// dot, all keys with that prefix. Otherwise it matches keys with a word of that prefix in their
// name, meaning or synonyms. Throws ConfigurationError, with the nearest key, if nothing matches.
std::vector<OptionDescription> search(std::vector<OptionDescription> reference,
                                      const std::vector<std::string>& words);

// Returns messages about terms that are not keys but options of a command, or unsupported.
std::vector<std::string> notes_about(const std::vector<std::string>& words);

// Returns whether `word` is a file name rather than a search word: no key has a slash or such a
// suffix.
bool names_file(const std::string& word);

}  // namespace longspan
