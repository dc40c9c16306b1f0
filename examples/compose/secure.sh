#!/bin/sh
# Makes what the profile `secure` of compose.yaml needs, once: an authority, the broker's certificate, and users with
# passwords. docs/security.md explains each step.
#
#   secure.sh DIRECTORY [THE SAME, AS OTHERS SEE IT]
set -eu
umask 077
cd "$1"
[ ! -e users ] || exit 0
there=${2:-$1}
ec="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
# shellcheck disable=SC2086
openssl req -x509 $ec -days 3650 -subj "/CN=The authority of compose.yaml" \
    -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca.key -out ca.pem 2> /dev/null
# shellcheck disable=SC2086
openssl req -x509 $ec -days 365 -subj "/CN=secure-broker" -addext "basicConstraints=critical,CA:FALSE" \
    -addext "subjectAltName=DNS:secure-broker,DNS:localhost,IP:127.0.0.1" \
    -CA ca.pem -CAkey ca.key -keyout broker.key -out broker.crt 2> /dev/null
openssl verify -x509_strict -CAfile ca.pem broker.crt # as Python does from 3.13 on
cat broker.key broker.crt > broker.pem
for name in admin producer consumer guest; do
    openssl rand -hex 16 > "$name.password"
    ottla users hash "$name" --password-file "$name.password" >> users.new
    cat > "$name.properties" << END
security.protocol=SASL_SSL
ssl.ca.location=$there/ca.pem
sasl.mechanism=SCRAM-SHA-512
sasl.username=$name
sasl.password=$(cat "$name.password")
END
done
mv users.new users
echo "made a certificate, and users: admin, producer, consumer and guest"
