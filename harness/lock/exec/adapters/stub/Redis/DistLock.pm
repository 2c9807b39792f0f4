# A stub of Redis::DistLock of CPAN, see README.md.
package Redis::DistLock;
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

our $VERSION = 'stub';

sub new { my ($class, %args) = @_; return bless({%args}, $class) }

sub _ask {
    my ($addr, @words) = @_;
    my $s = IO::Socket::INET->new(PeerAddr => $addr, Timeout => 1) or return '';
    $s->print('*' . @words . "\r\n" . join('', map { '$' . length($_) . "\r\n$_\r\n" } @words));
    $s->flush;
    return '' unless IO::Select->new($s)->can_read(1);
    return (readline($s) // '') =~ s/\s+$//r;
}

sub lock {
    my ($self, $resource, $ttl, $value) = @_;
    my $began = clock_gettime(CLOCK_MONOTONIC);
    $value //= join('', map { sprintf('%02x', rand(256)) } 1 .. 16);
    my $votes = grep { _ask($_, 'SET', $resource, $value, 'NX', 'PX', int($ttl * 1000)) eq '+OK' } @{ $self->{servers} };
    my $lock  = { resource => $resource, value => $value, validity => $ttl - (clock_gettime(CLOCK_MONOTONIC) - $began) - $ttl * 0.01 - 0.002 };
    return $lock if $votes > @{ $self->{servers} } / 2 && $lock->{validity} > 0;
    $self->release($lock);
    return undef;
}

sub release {
    my ($self, $lock) = @_;
    my $script = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) end return 0';
    _ask($_, 'EVAL', $script, 1, $lock->{resource}, $lock->{value}) for @{ $self->{servers} };
}

1;
