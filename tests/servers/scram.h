/* A login by SCRAM-SHA-256 (RFC 5802 and 7677), for servers without libraries; without channel binding or a check of the
   server's own proof. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What both sides sign: the client's first message without its header. */
#define SCRAM_FIRST "n=,r=boxedboxedboxedboxed"

static uint32_t turned(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

/* FIPS 180-4, 6.2: the hash of at most 512 bytes. */
static void sha256(const unsigned char *text, size_t length, unsigned char *hash) {
    static uint32_t keys[64], first[8];
    static int known;
    for (int prime = 2, at = 0; !known && at < 64; prime++) { /* the fractions of the primes' roots */
        int divisor = 2;
        while (prime % divisor) divisor++;
        if (divisor < prime) continue;
        long double square = 1, cube = 1;
        for (int step = 0; step < 64; step++) {
            square = (square + prime / square) / 2;
            cube = (2 * cube + prime / (cube * cube)) / 3;
        }
        if (at < 8) first[at] = (uint32_t)((square - (int)square) * 4294967296.0L);
        keys[at++] = (uint32_t)((cube - (int)cube) * 4294967296.0L);
        if (at == 64) known = 1;
    }
    unsigned char padded[640] = {0};
    size_t blocks = (length + 9 + 63) / 64;
    memcpy(padded, text, length);
    padded[length] = 0x80;
    for (int byte = 0; byte < 4; byte++) padded[64 * blocks - 1 - byte] = (unsigned char)(length * 8 >> 8 * byte);
    uint32_t state[8], words[64];
    memcpy(state, first, sizeof state);
    for (size_t block = 0; block < blocks; block++) {
        for (int at = 0; at < 16; at++) {
            const unsigned char *four = padded + 64 * block + 4 * at;
            words[at] = (uint32_t)four[0] << 24 | four[1] << 16 | four[2] << 8 | four[3];
        }
        for (int at = 16; at < 64; at++) {
            uint32_t old = words[at - 15], late = words[at - 2];
            words[at] = words[at - 16] + words[at - 7] + (turned(old, 7) ^ turned(old, 18) ^ old >> 3) +
                        (turned(late, 17) ^ turned(late, 19) ^ late >> 10);
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
        for (int at = 0; at < 64; at++) {
            uint32_t one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + keys[at] + words[at];
            uint32_t two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
    for (int at = 0; at < 32; at++) hash[at] = (unsigned char)(state[at / 4] >> (24 - 8 * (at % 4)));
}

/* RFC 2104, with a key of at most 64 bytes and a text of at most 400. */
static void hmac(const unsigned char *key, size_t size, const void *text, size_t length, unsigned char *code) {
    unsigned char inner[512] = {0}, outer[96] = {0};
    memcpy(inner, key, size);
    memcpy(outer, key, size);
    for (int at = 0; at < 64; at++) inner[at] ^= 0x36, outer[at] ^= 0x5c;
    memcpy(inner + 64, text, length);
    sha256(inner, 64 + length, outer + 64);
    sha256(outer, 96, code);
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode(const unsigned char *bytes, size_t length, char *text) {
    for (size_t at = 0; at < length; at += 3) {
        uint32_t three = bytes[at] << 16 | (at + 1 < length ? bytes[at + 1] << 8 : 0) | (at + 2 < length ? bytes[at + 2] : 0);
        for (int digit = 0; digit < 4; digit++) *text++ = at + digit > length ? '=' : digits[three >> (18 - 6 * digit) & 63];
    }
    *text = 0;
}

static size_t decode(const char *text, unsigned char *bytes) {
    size_t length = 0;
    uint32_t bits = 0;
    int held = 0;
    for (const char *digit; *text && *text != '=' && (digit = strchr(digits, *text)); text++) {
        bits = bits << 6 | (uint32_t)(digit - digits), held += 6;
        if (held >= 8) bytes[length++] = (unsigned char)(bits >> (held -= 8));
    }
    return length;
}

/* The client's last message, which proves that it knows the password; `asked` is the server's first one. */
static void scram_proof(const char *password, const char *asked, char *last) {
    unsigned char salt[128], salted[32], round[32], key[32], stored[32], proof[32];
    char nonce[128], given[128], both[400], text[64];
    int rounds;
    sscanf(asked, "r=%127[^,],s=%127[^,],i=%d", nonce, given, &rounds);
    size_t size = decode(given, salt);
    memcpy(salt + size, "\0\0\0\1", 4);
    hmac((const unsigned char *)password, strlen(password), salt, size + 4, round);
    memcpy(salted, round, 32);
    while (--rounds) {
        hmac((const unsigned char *)password, strlen(password), round, 32, round);
        for (int at = 0; at < 32; at++) salted[at] ^= round[at];
    }
    hmac(salted, 32, "Client Key", 10, key);
    sha256(key, 32, stored);
    int length = snprintf(both, sizeof both, "%s,%s,c=biws,r=%s", SCRAM_FIRST, asked, nonce);
    hmac(stored, 32, both, (size_t)length, proof);
    for (int at = 0; at < 32; at++) proof[at] ^= key[at];
    encode(proof, 32, text);
    sprintf(last, "c=biws,r=%s,p=%s", nonce, text);
}
