# Doxygen reads headers through this: the comments of the house are plain text behind //, and become comments that Doxygen
# takes for documentation. SPDX-License-Identifier: Apache-2.0
#   perl doxygen_comments.pl HEADER
use strict;
use warnings;

# Plain text: nothing in it is a command of Doxygen, a tag or a reference.
sub plain {
  my ($text) = @_;
  $text =~ s/([\\@#<>%&])/\\$1/g;
  $text =~ s/^( *)([-+*]|\d+\.)( |$)/$1&zwj;$2$3/;  # no list begins,
  $text =~ s/( \.+)$/$1&zwj;/;                      # and none ends
  return $text;
}

my $in_head = 1;   # the first comment is about the file
my $beside = -1;   # the column of a comment that stands behind code, until it ends
my $skipped = 0;   # what makes our types known to other libraries
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
    my $mark = $beside >= 0 && $beside == length $indent ? "///<" : "///";
    print "$indent$mark$text\n";
    next;
  }
  $in_head = 0;
  if ($line !~ /^[#}]/ && $line =~ m{^((?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*\S\s+)// (.*)$}) {
    $beside = length $1;
    print "$1///< ", plain($2), "\n";
  } else {
    $beside = -1;
    print "$line\n";
  }
}
