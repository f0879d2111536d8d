// A program of someone else: it sees the installed headers and links the installed libraries.
#include <iostream>

#include "framework/comm/session.h"
#include "framework/data/stream_reader.h"

int main(int, char** arguments) {
  const longspan::Session session;
  const longspan::Corpus corpus(arguments[0], longspan::Tokenizer());
  longspan::StreamReader reader(corpus, {2, 4}, 0, 1, longspan::Device::cpu());
  std::cout << "read " << reader.next().field("tokens").shape().to_string() << " on "
            << session.world().size() << "\n";
}
