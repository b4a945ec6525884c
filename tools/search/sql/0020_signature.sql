-- A vector's signature: for each of its numbers five bits that say above which of five thresholds it lies. So the Hamming distance
-- of two signatures is the sum over the numbers of how many thresholds lie between the two. 240 bytes instead of 1,544, and no
-- multiplication; docs/search.md shows what it finds. The thresholds are in units of 1/sqrt(384), the mean size of a number.
--
-- The generated column `signature` of every table of embeddings, and the search for its question. It is IMMUTABLE: a changed body
-- needs every stored signature computed anew.
CREATE FUNCTION search_signature(embedded vector) RETURNS bit
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT binary_quantize(embedded)
        || binary_quantize(embedded - array_fill(0.023::real, ARRAY[384])::vector)
        || binary_quantize(embedded + array_fill(0.023::real, ARRAY[384])::vector)
        || binary_quantize(embedded - array_fill(0.051::real, ARRAY[384])::vector)
        || binary_quantize(embedded + array_fill(0.051::real, ARRAY[384])::vector);
END;
