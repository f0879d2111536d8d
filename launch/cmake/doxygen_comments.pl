# Doxygen input filter: converts the plain // comments of the headers into documentation comments. SPDX-License-Identifier: Apache-2.0
#   perl doxygen_comments.pl HEADER
use strict;
use warnings;

# Escapes Doxygen commands, tags and references.
sub plain {
  my ($text) = @_;
  $text =~ s/([\\@#<>%&])/\\$1/g;
  $text =~ s/^( *)([-+*]|\d+\.)( |$)/$1&zwj;$2$3/;  # do not start a list,
  $text =~ s/( \.+)$/$1&zwj;/;                      # or end one
  return $text;
}

my $in_head = 1;   # the first comment documents the file
my $comment_column = -1;   # column of the current trailing comment
my $skipped = 0;   # specializations of other libraries
while (my $line = <>) {
  chomp $line;
  $skipped = 1 if $line =~ /^struct fmt::formatter</;
  if ($skipped) {
    $skipped = 0 if $line eq "};";
    print "\n";
    next;
  }
  if ($line =~ m{^( *)//( .*)?$}) {
    my ($indent, $text) = ($1, plain($2 // ""));
    print "/// \\file\n" if $in_head == 1;
    $in_head = 2 if $in_head;
    my $mark = $comment_column >= 0 && $comment_column == length $indent ? "///<" : "///";
    print "$indent$mark$text\n";
    next;
  }
  $in_head = 0;
  if ($line !~ /^[#}]/ && $line =~ m{^((?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*\S\s+)// (.*)$}) {
    $comment_column = length $1;
    print "$1///< ", plain($2), "\n";
  } else {
    $comment_column = -1;
    print "$line\n";
  }
}
