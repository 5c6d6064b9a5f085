"""The lab: experiments, what their points say of claims, pages of results, benchmarks and studies."""
