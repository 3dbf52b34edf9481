"""Values and checks that everything else is made of: errors, option objects, durations, rates. Pure."""
